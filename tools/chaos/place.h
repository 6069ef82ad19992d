/*
 * Where the files lie that the harness needs besides itself: relative to the program where it is
 * installed (the whole prefix may be moved), else in the trees that it was built in.
 */
#ifndef CHAOS_PLACE_H
#define CHAOS_PLACE_H

#include <stdbool.h>
#include <stddef.h>

/* The library that bends clocks, and the file that containers are made from. True: it is there and
 * can be read. False: path is where it was looked for last. */
bool place_preload(char *path, size_t size);
bool place_compose(char *path, size_t size);

#endif
