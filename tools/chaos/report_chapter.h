/* One scenario in report.html. */
#ifndef CHAOS_REPORT_CHAPTER_H
#define CHAOS_REPORT_CHAPTER_H

#include <stdio.h>

#include "report.h"

/* number: from 1; all its ids begin with c<number>. 0 or ENOMEM. */
int report_chapter(const struct chapter *chapter, size_t number, FILE *stream);

/* "verdict as expected" as a coloured pill, with a sign for those who don't see the colour. */
void report_verdict(const struct chapter *chapter, FILE *stream);
const char *report_verdict_sign(int status);

#endif
