/* Threads that give way to others. */
#ifndef BASE_NICE_H
#define BASE_NICE_H

/* The calling thread is at a lower priority from now on, as far as the system allows it. */
void give_way(void);

#endif
