// SPDX-License-Identifier: Apache-2.0
// A request that the sample symbols of tests/data/symbols answer.
export const sample = `{"jobs": [
  {"memoryMap": [
     ["xul.pdb", "44E4EC8C2F41492B9369D6B9A059577C2"],
     ["libc.so.6", "5AB31EC08E5A39B16F9FBD350E3169A50"],
     ["dump_syms", "04250056CD445D7DEBEE13F18E4098A00"],
     ["missing.so", "0123456789ABCDEF0123456789ABCDEF0"]],
   "stacks": [
     [[1, 277722], [2, 5138104], [0, 5500], [3, 650028], [2, 5138112], [0, 10338]]]}
]}
`;
