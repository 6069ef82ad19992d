/* Normal: Box and Muller; the others: the inverse of their distribution function. */
#include "delay.h"

#include <math.h>

#define DELAY_MAX_NS 60e9
#define PARETO_SHAPE 1.5

static double draw(struct stream *stream, enum law law, double base, double spread)
{
    double u = 1 - stream_unit(stream); /* 0 < u <= 1 */

    switch (law) {
    case LAW_CONSTANT:
        return base;
    case LAW_UNIFORM:
        return base + spread * (2 * u - 1);
    case LAW_NORMAL:
        return base + spread * sqrt(-2 * log(u)) * cos(2 * acos(-1) * stream_unit(stream));
    case LAW_EXPONENTIAL:
        return base - spread * log(u);
    case LAW_PARETO:
        return base + spread * pow(u, -1 / PARETO_SHAPE);
    }
    return base;
}

int64_t delay_draw(struct stream *stream, struct delay delay)
{
    double ns;

    if (delay.base_ns == 0 && delay.spread_ns == 0)
        return 0;
    ns = draw(stream, delay.law, (double)delay.base_ns, (double)delay.spread_ns);
    if (!(ns > 0))
        return 0;
    return (int64_t)(ns < DELAY_MAX_NS ? ns : DELAY_MAX_NS);
}
