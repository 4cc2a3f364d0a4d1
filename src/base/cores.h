/* SPDX-License-Identifier: Apache-2.0 */
/* How many processor cores there are. */
#ifndef BASE_CORES_H
#define BASE_CORES_H

/* The cores that the calling thread may run on, limited by the processor time that the control groups allow; 1 when the
 * system does not say. */
unsigned cores_count(void);

#endif
