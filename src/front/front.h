/* SPDX-License-Identifier: Apache-2.0 */
/* The front: the listening socket, nginx's connections, and the worker threads that answer them. */
#ifndef FRONT_H
#define FRONT_H

#include "base/config.h"
#include "base/error.h"

struct front;

/* The socket to listen on: config->listen, else systemd's descriptor 3, else descriptor 0. */
enum err front_listen(const struct config *c, int *fd, struct error *e);
/* Whether config->listen and its group can be had, without listening; whether somebody else listens there is not looked
 * at. ERR_CONFIG. */
enum err front_check_listen(const struct config *c, struct error *e);
/* Starts the workers; handle is called on them for each request. Takes the descriptor. */
struct exchange;
struct front *front_start(const struct config *c, int fd, void (*handle)(struct exchange *), struct error *e);
/* The settings for requests that come from now on; the old ones must stay alive while requests that began with them
 * run. */
void front_set_config(struct front *f, const struct config *c);
/* Stops accepting, finishes what is in hand within the bound, ends the threads, frees f. Returns the number of requests
 * that were cut off. */
unsigned front_stop(struct front *f, int64_t bound);

#endif
