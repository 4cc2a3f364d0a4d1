/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses, and the end behind the last one, which no uint64_t holds. */
#ifndef FORMAT_POSITION_H
#define FORMAT_POSITION_H

typedef unsigned __int128 position;
#define ADDRESS_END ((position)1 << 64)

#endif
