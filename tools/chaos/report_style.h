/* What report.html looks like: the content of its <style>, line by line, and shared patterns. */
#ifndef CHAOS_REPORT_STYLE_H
#define CHAOS_REPORT_STYLE_H

extern const char *const report_style[]; /* NULL at the end */
/* A drawing of no size, with the hatchings that the others use. */
extern const char report_patterns[];

#endif
