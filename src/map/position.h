/* SPDX-License-Identifier: Apache-2.0 */
/* An address, or the end of the address space, which does not fit into a uint64_t. */
#ifndef MAP_POSITION_H
#define MAP_POSITION_H

typedef unsigned __int128 position;
#define ADDRESS_END ((position)1 << 64)

#endif
