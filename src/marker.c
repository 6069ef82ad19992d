/*
 * The text is words of the form name=value in a fixed order, readable with redis-cli. It begins
 * with the version of its meaning: a later one is not understood, and then its primary
 * doesn't count.
 */
#include "marker.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void redlock__marker_format(const struct redlock__marker *marker, char text[REDLOCK__MARKER_LEN])
{
    (void)snprintf(text, REDLOCK__MARKER_LEN,
                   "redlock=1 fleet=%016" PRIx64 " member=%" PRIu32 " n=%" PRIu32 " quorum=%" PRIu32
                   " max_ttl_ms=%" PRId64 " durable=%d retired=%d run=%.40s offset=%" PRId64,
                   marker->fleet, marker->member, marker->n, marker->quorum, marker->max_ttl_ms,
                   marker->durable, marker->retired, marker->run_id, marker->second_offset);
}

bool redlock__marker_parse(const char *text, struct redlock__marker *marker)
{
    struct redlock__marker read = {0};
    char again[REDLOCK__MARKER_LEN];
    unsigned durable, retired;

    if (sscanf(text,
               "redlock=1 fleet=%16" SCNx64 " member=%5" SCNu32 " n=%5" SCNu32 " quorum=%5" SCNu32
               " max_ttl_ms=%15" SCNd64
               " durable=%1u retired=%1u run=%40[0-9a-zA-Z] offset=%19" SCNd64,
               &read.fleet, &read.member, &read.n, &read.quorum, &read.max_ttl_ms, &durable,
               &retired, read.run_id, &read.second_offset) != 9)
        return false;
    read.durable = durable == 1;
    read.retired = retired == 1;
    redlock__marker_format(&read, again);
    if (strcmp(again, text) != 0 || read.max_ttl_ms < 1 || read.max_ttl_ms > REDLOCK_MAX_TTL_MS)
        return false;
    *marker = read;
    return true;
}
