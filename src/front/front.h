/* SPDX-License-Identifier: Apache-2.0 */
/* The front: the listening socket, nginx's connections, and the worker threads that answer them. */
#ifndef FRONT_FRONT_H
#define FRONT_FRONT_H

#include "base/config.h"
#include "base/error.h"

struct front;

/* The socket to listen on: config->listen, else systemd's descriptor 3, else descriptor 0. */
enum err front_listen(const struct config *c, int *fd, struct error *e);
/* Checks that config->listen and its group can be used, without listening; does not check whether somebody else listens
 * there. ERR_CONFIG. */
enum err front_check_listen(const struct config *c, struct error *e);
/* Starts the workers, which call handle for each request. Takes ownership of the descriptor. */
struct exchange;
struct front *front_start(const struct config *c, int fd, void (*handle)(struct exchange *), struct error *e);
/* The settings for requests that arrive from now on. The old ones must stay valid while requests that began with them
 * are running. */
void front_set_config(struct front *f, const struct config *c);
/* Stops accepting, lets requests in progress finish within the bound, ends the threads and frees f. Returns the number
 * of requests that were cut off. If a thread takes five seconds more, because it waits for something else than its
 * client, f stays with it. */
unsigned front_stop(struct front *f, int64_t bound);

#endif
