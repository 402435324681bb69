;; What the worker times: following links, and reading in order with vectors of 128 bits. book/build.py assembles it.
(module
  (import "page" "memory" (memory 1))

  ;; Follow `steps` links from the byte address `place`; each holds the address of the next. `steps` is a multiple of 8.
  (func (export "follow") (param $place i32) (param $steps i32) (result i32)
    (loop $again
      (local.set $place (i32.load (i32.load (i32.load (i32.load (local.get $place))))))
      (local.set $place (i32.load (i32.load (i32.load (i32.load (local.get $place))))))
      (local.set $steps (i32.sub (local.get $steps) (i32.const 8)))
      (br_if $again (i32.gt_s (local.get $steps) (i32.const 0))))
    (local.get $place))

  ;; Add up the first `bytes` bytes, a multiple of 128, `rounds` times over. Eight sums, so that none waits for another;
  ;; integers, so that no bit pattern is slow to add.
  (func (export "read") (param $bytes i32) (param $rounds i32) (result i32)
    (local $at i32)
    (local $a v128) (local $b v128) (local $c v128) (local $d v128)
    (local $e v128) (local $f v128) (local $g v128) (local $h v128)
    (loop $round
      (local.set $at (i32.const 0))
      (loop $line
        (local.set $a (i32x4.add (local.get $a) (v128.load (local.get $at))))
        (local.set $b (i32x4.add (local.get $b) (v128.load offset=16 (local.get $at))))
        (local.set $c (i32x4.add (local.get $c) (v128.load offset=32 (local.get $at))))
        (local.set $d (i32x4.add (local.get $d) (v128.load offset=48 (local.get $at))))
        (local.set $e (i32x4.add (local.get $e) (v128.load offset=64 (local.get $at))))
        (local.set $f (i32x4.add (local.get $f) (v128.load offset=80 (local.get $at))))
        (local.set $g (i32x4.add (local.get $g) (v128.load offset=96 (local.get $at))))
        (local.set $h (i32x4.add (local.get $h) (v128.load offset=112 (local.get $at))))
        (local.set $at (i32.add (local.get $at) (i32.const 128)))
        (br_if $line (i32.lt_u (local.get $at) (local.get $bytes))))
      (local.set $rounds (i32.sub (local.get $rounds) (i32.const 1)))
      (br_if $round (i32.gt_s (local.get $rounds) (i32.const 0))))
    (i32x4.extract_lane 0
      (i32x4.add
        (i32x4.add (i32x4.add (local.get $a) (local.get $b)) (i32x4.add (local.get $c) (local.get $d)))
        (i32x4.add (i32x4.add (local.get $e) (local.get $f)) (i32x4.add (local.get $g) (local.get $h)))))))
