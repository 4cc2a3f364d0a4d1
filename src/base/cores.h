/* SPDX-License-Identifier: Apache-2.0 */
/* How many processor cores there are. */
#ifndef BASE_CORES_H
#define BASE_CORES_H

/* Those that the calling thread may run on, and no more than the processor time that the control groups allow takes; 1
 * where the system does not say. */
unsigned cores_count(void);

#endif
