// SPDX-License-Identifier: Apache-2.0
// What the sample symbols of tests/data/symbols answer: a report of AddressSanitizer as gcc 12 wrote it, with the build ids that gcc 13 adds;
// samples of perf; and a request of version 5.
export const samples = {
	crash: `=================================================================
==4711==ERROR: AddressSanitizer: heap-use-after-free on address 0x6040000000b0 at pc 0x5572eb557325 bp 0x7fffbb4c55d0 sp 0x7fffbb4c55c8
READ of size 4 at 0x6040000000b0 thread T0
    #0 0x5572eb557324  (/opt/shop/inventory+0x1324) (BuildId: 6629a03ca94e612faeb95a4940aff4eb062c2df5)
    #1 0x5572eb557b12  (/opt/shop/inventory+0x1b12) (BuildId: 6629a03ca94e612faeb95a4940aff4eb062c2df5)
    #2 0x7f3fa0e45249  (/lib/x86_64-linux-gnu/libc.so.6+0x27249)
    #3 0x7f3fa0e45304  (/lib/x86_64-linux-gnu/libc.so.6+0x27304)
    #4 0x5572eb5571a0  (/opt/shop/inventory+0x11a0) (BuildId: 6629a03ca94e612faeb95a4940aff4eb062c2df5)

0x6040000000b0 is located 32 bytes inside of 40-byte region [0x604000000090,0x6040000000b8)
freed by thread T0 here:
    #0 0x7f3fa10ba3c8  (/lib/x86_64-linux-gnu/libasan.so.8+0xba3c8)
    #1 0x5572eb5573d3  (/opt/shop/inventory+0x13d3) (BuildId: 6629a03ca94e612faeb95a4940aff4eb062c2df5)
    #2 0x5572eb557aff  (/opt/shop/inventory+0x1aff) (BuildId: 6629a03ca94e612faeb95a4940aff4eb062c2df5)
    #3 0x7f3fa0e45249  (/lib/x86_64-linux-gnu/libc.so.6+0x27249)

previously allocated by thread T0 here:
    #0 0x7f3fa10b94c8  (/lib/x86_64-linux-gnu/libasan.so.8+0xb94c8)
    #1 0x5572eb557785  (/opt/shop/inventory+0x1785) (BuildId: 6629a03ca94e612faeb95a4940aff4eb062c2df5)
    #2 0x5572eb557ab9  (/opt/shop/inventory+0x1ab9) (BuildId: 6629a03ca94e612faeb95a4940aff4eb062c2df5)
    #3 0x7f3fa0e45249  (/lib/x86_64-linux-gnu/libc.so.6+0x27249)

SUMMARY: AddressSanitizer: heap-use-after-free (/opt/shop/inventory+0x1324) (BuildId: 6629a03ca94e612faeb95a4940aff4eb062c2df5) 
==4711==ABORTING
`,
	profile: `MODULE Linux x86_64 CEB366FBF2C5A264F863D96FA875EB4A0 ceph-osd
MODULE Linux x86_64 5AB31EC08E5A39B16F9FBD350E3169A50 libc.so.6

ceph-osd  1307 8231.104716:    1010101 cycles:u: 
	    55d0c0ee66b8 [unknown] (/usr/bin/ceph-osd+0x4e66b8)
	    55d0c0f94ae0 [unknown] (/usr/bin/ceph-osd+0x594ae0)
	    55d0c13c6450 [unknown] (/usr/bin/ceph-osd+0x9c6450)
	    7f2f3ce8ea94 [unknown] (/usr/lib/x86_64-linux-gnu/libc.so.6+0x43cdb)

ceph-osd  1307 8231.105726:    1010101 cycles:u: 
	    55d0c15417ca [unknown] (/usr/bin/ceph-osd+0xb417ca)
	    55d0c0ee66c1 [unknown] (/usr/bin/ceph-osd+0x4e66c1)
	    55d0c1456045 [unknown] (/usr/bin/ceph-osd+0xa56045)
	    7f2f3ce8ea94 [unknown] (/usr/lib/x86_64-linux-gnu/libc.so.6+0x43cdb)

ceph-osd  1307 8231.106736:    1010101 cycles:u: 
	    55d0c1ce8f8f rocksdb::PersistentCacheOptions::~PersistentCacheOptions+0xaf (/usr/bin/ceph-osd+0x12e8f8f)
	    55d0c1a5e654 [unknown] (/usr/bin/ceph-osd+0x105e654)
	    7f2f3ce8ea94 str_to_mpn+0x8b (/usr/lib/x86_64-linux-gnu/libc.so.6+0x43cdb)

`,
	json: `{"memoryMap": [
   ["xul.pdb", "44E4EC8C2F41492B9369D6B9A059577C2"],
   ["libc.so.6", "5AB31EC08E5A39B16F9FBD350E3169A50"],
   ["dump_syms", "04250056CD445D7DEBEE13F18E4098A00"],
   ["missing.so", "0123456789ABCDEF0123456789ABCDEF0"]],
 "stacks": [
   [[1, 277722], [2, 5138104], [0, 5500], [3, 650028]],
   [[2, 5138112], [0, 10338], [-1, 140723412345]]]}
`,
};
