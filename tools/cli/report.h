/* What is said about results, to people and to programs. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "redlock.h"
#include "session.h"
#include "text.h"

/* A line on standard error, "redlock: " before it. Not with --quiet, nor with --json, which says it
 * there. */
void report_say(const struct cli_args *args, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same, with --verbose only; then also with --json. */
void report_detail(const struct cli_args *args, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same, for threads of the library: it never waits. */
void report_log(const struct cli_args *args, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Whatever the options are: for usage errors. */
void report_always(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Standard output could not be written, by errno, and what follows from that, or NULL. With --json,
 * too: it may be the object that is lost. */
void report_output_failed(const struct cli_args *args, const char *more);

/* Why an operation failed, with what each primary said where that is the reason. */
void report_failure(const struct session *session, int rc);

/* Each primary's vote and time, with --verbose only. */
void report_votes(const struct session *session);

/* "ok", "busy", "no_quorum": the names in JSON. */
const char *report_result_name(int rc);
const char *report_holder_name(redlock_holder holder);

void report_json_key(struct json *json, const struct session *session);
void report_json_nodes(struct json *json, const redlock_node_result *results, size_t count);

/* How many were not asked since their vote does not count. */
size_t report_barred(const redlock_node_result *results, size_t count);

/* "10.0.0.1:6379 silent; 10.0.0.2:6379 down, refused": those that did not vote for us. "" if none.
 */
void report_summary(const redlock_node_result *results, size_t count, char *text, size_t size);

#endif
