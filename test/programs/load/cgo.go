// SPDX-License-Identifier: MIT
// Go that takes blocks from C in many goroutines, frees them in others, and is called back by C.
package main

/*
#include <stdlib.h>
#include <string.h>

static char* fill(size_t size, int c) {
  char* p = malloc(size);
  memset(p, c, size);
  return p;
}

extern void called(void*, int);
static void call(int n) {
  for (int i = 0; i < n; i++) called(calloc(1, 16 + i), 16 + i);
}
*/
import "C"

import (
	"fmt"
	"net"
	"os/user"
	"sync"
	"unsafe"
)

var mutex sync.Mutex
var total int

//export called
func called(p unsafe.Pointer, n C.int) {
	mutex.Lock()
	total += int(n)
	mutex.Unlock()
	C.free(p)
}

func main() {
	blocks := make(chan unsafe.Pointer, 100)
	var makers, takers sync.WaitGroup
	for k := 0; k < 8; k++ {
		makers.Add(1)
		go func(k int) {
			defer makers.Done()
			for i := 0; i < 20000; i++ {
				blocks <- unsafe.Pointer(C.fill(C.size_t(1+(i*37+k)%3000), C.int(k+1)))
			}
			C.call(500)
		}(k)
	}
	sums := make([]int, 4)
	for k := range sums {
		takers.Add(1)
		go func(k int) {
			defer takers.Done()
			for p := range blocks {
				sums[k] += int(*(*byte)(p))
				C.free(p)
			}
		}(k)
	}
	makers.Wait()
	close(blocks)
	takers.Wait()
	sum := 0
	for _, s := range sums {
		sum += s
	}
	text := C.CString("text")
	addresses, _ := net.LookupHost("localhost")
	me, _ := user.Current()
	fmt.Println(sum, total, C.GoString(text), len(addresses) > 0, me.Uid)
	C.free(unsafe.Pointer(text))
}
