;; SPDX-License-Identifier: MIT
;; Trees in threads, tables, long numbers and large vectors, whose memory libgc, GMP and Guile take.
(use-modules (ice-9 threads) (srfi srfi-1) (rnrs bytevectors))
(define (tree n) (if (= n 0) '() (cons (tree (- n 1)) (tree (- n 1)))))
(define (count t) (if (null? t) 1 (+ (count (car t)) (count (cdr t)))))
(display (par-map (lambda (n) (count (tree n))) (iota 14 2)))
(newline)
(define table (make-hash-table))
(do ((i 0 (1+ i))) ((= i 100000)) (hash-set! table i (number->string (* i i i))))
(display (hash-fold (lambda (k v sum) (+ sum (string-length v))) 0 table))
(newline)
(display (expt 3 10000))
(newline)
(display (bytevector-length (make-bytevector 20000000 7)))
(newline)
(gc)
(display (string-length (call-with-output-string
                          (lambda (port) (for-each (lambda (i) (display i port)) (iota 10000))))))
(newline)
