/*
 * What net.c shows to faults.c.
 */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "sim.h"

/* Runs what the connection's server has received. */
void sim_net_serve(struct sim *sim, struct sim_conn *conn);
/* The server's end is gone; the client will see that. */
void sim_net_end_server_side(struct sim *sim, struct sim_conn *conn);
/* Nothing the client sent and nobody has read will ever be read. */
void sim_net_lose_requests(struct sim_conn *conn);
void sim_net_swallow(struct sim_conn *conn);
/* The client's end dies at once, when the running event is over. */
void sim_net_reset_soon(struct sim *sim, const struct sim_conn *conn);
/* What is held is delivered, and a connect that waits goes on. */
void sim_net_open(struct sim *sim, struct sim_conn *conn);
/* Frees connections of which both ends are closed. */
void sim_net_reap(struct sim *sim);

#endif
