/* SPDX-License-Identifier: Apache-2.0 */
/* How many processor cores there are, and how far apart they like what each writes. */
#ifndef BASE_CORES_H
#define BASE_CORES_H

/* The cores that the calling thread may run on, limited by the processor time that the control groups allow; 1 when the
 * system does not say. */
unsigned cores_count(void);

enum { CACHE_LINE = 64 }; /* bytes */

#endif
