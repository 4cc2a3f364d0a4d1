/* Threads that give way to others. */
#ifndef BASE_NICE_H
#define BASE_NICE_H

/* The calling thread has this priority from now on, as far as the system allows it: 1 to 19, 19 the lowest. */
void give_way(int nice);

#endif
