/* SPDX-License-Identifier: Apache-2.0 */
/* A random number that nobody can guess: for tokens, markers and seeds. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

/* Never 0. */
uint64_t random_u64(void);

#endif
