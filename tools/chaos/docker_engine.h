/* What is asked of the Docker engine as a whole, through its command line. */
#ifndef CHAOS_DOCKER_ENGINE_H
#define CHAOS_DOCKER_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Everything of a run bears this label, with the name of its project. */
#define DOCKER_LABEL "redlock.chaos"

bool docker_answers(void);
/* Sets `words` to how Compose is called: {"docker", "compose"} or {"docker-compose", NULL}. -1:
 * there is none. */
int docker_find_compose(const char *words[2]);
/* An image that is there: `wanted`, if not NULL, or the first to be had of the project's. Takes
 * minutes at worst, and says on stderr what it is doing. */
int docker_choose_image(const char *wanted, char *image, size_t size, char *text, size_t text_size);

/* Containers, networks and volumes of this project. -1: not all of them could be removed. Each is a
 * line on `stream` (NULL: none) and counts in `removed`. Not to be interrupted. */
int docker_remove(const char *project, FILE *stream, unsigned *removed);
/* How many there are; what the engine doesn't tell counts as one. */
unsigned docker_count(const char *project);

#endif
