/*
 * A run's directory and the file `owner` in it: a line each for who runs it and for everything it
 * started, written before that begins its work. Whoever finds the directory of a dead run knows
 * from it what is to be ended and removed.
 */
#ifndef CHAOS_RUNDIR_H
#define CHAOS_RUNDIR_H

#include <stdint.h>
#include <sys/types.h>

/* This process runs it; nothing if the directory says so already. 0, or -1 with errno; so below. */
int rundir_own(const char *directory);
/* To be written down before it does anything. */
int rundir_note_server(const char *directory, pid_t pid);
int rundir_note_project(const char *directory, const char *project);
/* Of the servers noted, how many are alive. */
unsigned rundir_servers_alive(const char *directory);

#endif
