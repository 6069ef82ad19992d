/*
 * A worker's process: how it comes to be, and what the system tells about it.
 */
#ifndef CHAOS_WORKERS_SPAWN_H
#define CHAOS_WORKERS_SPAWN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Names the control's program where it is not beside this one. */
#define WORKERS_CONTROL_VARIABLE "REDLOCK_CHAOS_CONTROL"

/* Starts the worker of a spec, as the leader of a process group of its own, with these as its
 * descriptors 3, 4 and 5. It dies with the thread that called this. -1: errno, and text. */
pid_t workers_spawn(const json_t *spec, const int fds[3], char *text, size_t size);

/* No thread of it, nor of its children, runs; nor will, before it's told to go on. */
bool workers_stopped(pid_t pid);

#endif
