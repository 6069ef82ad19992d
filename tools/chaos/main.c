/* redlock-chaos: see args.c for its help, scene.h for how it works. */
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "scenarios.h"
#include "series.h"
#include "worker.h"

static int list_json(void)
{
    json_t *list = json_array(), *row_list = json_array(), *all;
    int failed;

    for (size_t i = 0; i < scenario_count; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:b, s:b, s:b, s:s}", "name", scenarios[i].name,
                                        "title", scenarios[i].title, "control",
                                        scenarios[i].control, "smoke", scenarios[i].smoke, "apart",
                                        scenarios[i].apart, "mode", mode_name(scenarios[i].mode)));
    for (size_t i = 0; i < row_count; i++)
        json_array_append_new(
            row_list, json_pack("{s:s, s:s}", "name", rows[i].name, "title", rows[i].title));
    all = json_pack("{s:o, s:o}", "scenarios", list, "rows", row_list);
    failed = json_dumpf(all, stdout, JSON_INDENT(2));
    (void)putchar('\n');
    json_decref(all);
    return failed != 0 ? EXIT_INTERNAL : 0;
}

static int list(void)
{
    (void)puts(
        "Scenarios (x: something must break, else the checkers are blind; s: part of smoke;\n"
        "-: not part of all; n: in a network of its own: processes, root, iptables)");
    for (size_t i = 0; i < scenario_count; i++)
        (void)printf("  %c%c%c %-24s %s\n", scenarios[i].control ? 'x' : ' ',
                     scenarios[i].smoke   ? 's'
                     : scenarios[i].apart ? '-'
                                          : ' ',
                     scenarios[i].own_network ? 'n' : ' ', scenarios[i].name, scenarios[i].title);
    (void)puts("\nRows of compare");
    for (size_t i = 0; i < row_count; i++)
        (void)printf("      %-24s %s\n", rows[i].name, rows[i].title);
    return 0;
}

int main(int argc, char **argv)
{
    struct args args;
    int status;

    if (argc == 3 && strcmp(argv[1], "worker") == 0)
        return worker_main(argv[2]);
    status = args_read(&args, argc, argv);
    if (status < 0) {
        switch (args.command) {
        case COMMAND_RUN:
            status = series_run(&args, argc, argv);
            break;
        case COMMAND_COMPARE:
            status = series_compare(&args, argc, argv);
            break;
        case COMMAND_LIST:
            status = args.json ? list_json() : list();
            break;
        case COMMAND_CHECK:
            status = series_check(&args);
            break;
        case COMMAND_SWEEP:
            status = runtime_sweep(stdout) == 0 ? puts("nothing was left behind") < 0 : 0;
            break;
        }
    }
    args_free(&args);
    return status;
}
