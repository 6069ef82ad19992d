/* See place.h. What is installed comes first: the tree it was built in may be gone, or newer. */
#include "place.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* From the directory of the programs; the build knows what its user has chosen. */
#ifndef CHAOS_LIBRARY_PLACE
#define CHAOS_LIBRARY_PLACE "../lib/redlock"
#endif
#ifndef CHAOS_DATA_PLACE
#define CHAOS_DATA_PLACE "../share/redlock"
#endif
#ifndef CHAOS_CLOCK_PRELOAD
#define CHAOS_CLOCK_PRELOAD ""
#endif
#ifndef CHAOS_SOURCE_DIR
#define CHAOS_SOURCE_DIR ""
#endif

static bool find(const char *installed, const char *built, char *path, size_t size)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    self[n < 0 ? 0 : n] = '\0';
    if (strrchr(self, '/') != NULL) {
        *strrchr(self, '/') = '\0';
        if (snprintf(path, size, "%s/%s", self, installed) < (int)size && access(path, R_OK) == 0)
            return true;
    }
    return snprintf(path, size, "%s", built) < (int)size && access(path, R_OK) == 0;
}

bool place_preload(char *path, size_t size)
{
    return find(CHAOS_LIBRARY_PLACE "/libredlock_clock_preload.so", CHAOS_CLOCK_PRELOAD, path,
                size);
}

bool place_compose(char *path, size_t size)
{
    return find(CHAOS_DATA_PLACE "/docker-compose.yml", CHAOS_SOURCE_DIR "/docker-compose.yml",
                path, size);
}
