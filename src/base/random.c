/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/random.h"

#include <stdlib.h>
#include <sys/random.h>

uint64_t random_u64(void)
{
	uint64_t number = 0;
	while (!number)
		if (getrandom(&number, sizeof number, 0) != sizeof number)
			number = (uint64_t)random() << 32 ^ (uint64_t)random();
	return number;
}
