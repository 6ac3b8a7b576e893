;; Products of rows with a matrix [out, in], for kernels.js; tools/page/assemble.py assembles it.
;; All numbers are in one memory. `ins` is a multiple of 8, `outs` of 4. Each output is a sum
;; of products along `in`; eight are added at once, and four outputs are computed together.
(module
  (memory (export "memory") 1)

  ;; y = x W^T * scale: float32 x [rows, ins], w [outs, ins], scale [outs] -> y [rows, outs].
  (func (export "product_float32")
    (param $x i32) (param $rows i32) (param $w i32) (param $scale i32) (param $y i32)
    (param $outs i32) (param $ins i32) (param $scratch i32)
    (local $out i32)
    (loop $outputs
      (call $four_outputs (local.get $x) (local.get $rows) (local.get $w) (local.get $scale)
        (local.get $y) (local.get $outs) (local.get $ins))
      (local.set $w (i32.add (local.get $w) (i32.shl (local.get $ins) (i32.const 4))))
      (local.set $scale (i32.add (local.get $scale) (i32.const 16)))
      (local.set $y (i32.add (local.get $y) (i32.const 16)))
      (local.set $out (i32.add (local.get $out) (i32.const 4)))
      (br_if $outputs (i32.lt_u (local.get $out) (local.get $outs)))))

  ;; The same for int8 w. Four rows of w at a time become float32, in `scratch` [4, ins].
  (func (export "product_int8")
    (param $x i32) (param $rows i32) (param $w i32) (param $scale i32) (param $y i32)
    (param $outs i32) (param $ins i32) (param $scratch i32)
    (local $out i32) (local $to i32) (local $end i32) (local $eight v128)
    (loop $outputs
      (local.set $to (local.get $scratch))
      (local.set $end
        (i32.add (local.get $scratch) (i32.shl (local.get $ins) (i32.const 4))))
      (loop $widen
        (local.set $eight (v128.load8x8_s (local.get $w)))
        (v128.store (local.get $to)
          (f32x4.convert_i32x4_s (i32x4.extend_low_i16x8_s (local.get $eight))))
        (v128.store offset=16 (local.get $to)
          (f32x4.convert_i32x4_s (i32x4.extend_high_i16x8_s (local.get $eight))))
        (local.set $w (i32.add (local.get $w) (i32.const 8)))
        (local.set $to (i32.add (local.get $to) (i32.const 32)))
        (br_if $widen (i32.lt_u (local.get $to) (local.get $end))))
      (call $four_outputs (local.get $x) (local.get $rows) (local.get $scratch)
        (local.get $scale) (local.get $y) (local.get $outs) (local.get $ins))
      (local.set $scale (i32.add (local.get $scale) (i32.const 16)))
      (local.set $y (i32.add (local.get $y) (i32.const 16)))
      (local.set $out (i32.add (local.get $out) (i32.const 4)))
      (br_if $outputs (i32.lt_u (local.get $out) (local.get $outs)))))

  ;; Four outputs of each row.
  (func $four_outputs
    (param $x i32) (param $rows i32) (param $w i32) (param $scale i32) (param $y i32)
    (param $outs i32) (param $ins i32)
    (local $bytes i32) (local $end i32)
    (local $w0 i32) (local $w1 i32) (local $w2 i32) (local $w3 i32)
    (local $low v128) (local $high v128)
    (local $a0 v128) (local $a1 v128) (local $a2 v128) (local $a3 v128)
    (local $b0 v128) (local $b1 v128) (local $b2 v128) (local $b3 v128)
    (local.set $bytes (i32.shl (local.get $ins) (i32.const 2)))
    (loop $each_row
      (local.set $w0 (local.get $w))
      (local.set $w1 (i32.add (local.get $w0) (local.get $bytes)))
      (local.set $w2 (i32.add (local.get $w1) (local.get $bytes)))
      (local.set $w3 (i32.add (local.get $w2) (local.get $bytes)))
      (local.set $a0 (v128.const i32x4 0 0 0 0))
      (local.set $a1 (local.get $a0))
      (local.set $a2 (local.get $a0))
      (local.set $a3 (local.get $a0))
      (local.set $b0 (local.get $a0))
      (local.set $b1 (local.get $a0))
      (local.set $b2 (local.get $a0))
      (local.set $b3 (local.get $a0))
      (local.set $end (i32.add (local.get $x) (local.get $bytes)))
      (loop $eight_inputs
        (local.set $low (v128.load (local.get $x)))
        (local.set $high (v128.load offset=16 (local.get $x)))
        (local.set $a0 (f32x4.add (local.get $a0) (f32x4.mul (local.get $low) (v128.load (local.get $w0)))))
        (local.set $b0 (f32x4.add (local.get $b0) (f32x4.mul (local.get $high) (v128.load offset=16 (local.get $w0)))))
        (local.set $a1 (f32x4.add (local.get $a1) (f32x4.mul (local.get $low) (v128.load (local.get $w1)))))
        (local.set $b1 (f32x4.add (local.get $b1) (f32x4.mul (local.get $high) (v128.load offset=16 (local.get $w1)))))
        (local.set $a2 (f32x4.add (local.get $a2) (f32x4.mul (local.get $low) (v128.load (local.get $w2)))))
        (local.set $b2 (f32x4.add (local.get $b2) (f32x4.mul (local.get $high) (v128.load offset=16 (local.get $w2)))))
        (local.set $a3 (f32x4.add (local.get $a3) (f32x4.mul (local.get $low) (v128.load (local.get $w3)))))
        (local.set $b3 (f32x4.add (local.get $b3) (f32x4.mul (local.get $high) (v128.load offset=16 (local.get $w3)))))
        (local.set $x (i32.add (local.get $x) (i32.const 32)))
        (local.set $w0 (i32.add (local.get $w0) (i32.const 32)))
        (local.set $w1 (i32.add (local.get $w1) (i32.const 32)))
        (local.set $w2 (i32.add (local.get $w2) (i32.const 32)))
        (local.set $w3 (i32.add (local.get $w3) (i32.const 32)))
        (br_if $eight_inputs (i32.lt_u (local.get $x) (local.get $end))))
      (local.set $a0 (f32x4.add (local.get $a0) (local.get $b0)))
      (local.set $a1 (f32x4.add (local.get $a1) (local.get $b1)))
      (local.set $a2 (f32x4.add (local.get $a2) (local.get $b2)))
      (local.set $a3 (f32x4.add (local.get $a3) (local.get $b3)))
      (v128.store (local.get $y)
        (f32x4.mul
          (v128.load (local.get $scale))
          (call $sums (local.get $a0) (local.get $a1) (local.get $a2) (local.get $a3))))
      (local.set $y (i32.add (local.get $y) (i32.shl (local.get $outs) (i32.const 2))))
      (local.set $rows (i32.sub (local.get $rows) (i32.const 1)))
      (br_if $each_row (local.get $rows))))

  ;; The sums of the four numbers in a, in b, in c and in d.
  (func $sums (param $a v128) (param $b v128) (param $c v128) (param $d v128) (result v128)
    ;; a0 + a2, b0 + b2, a1 + a3, b1 + b3; likewise for c and d
    (local.set $a (f32x4.add
      (i8x16.shuffle 0 1 2 3 16 17 18 19 4 5 6 7 20 21 22 23 (local.get $a) (local.get $b))
      (i8x16.shuffle 8 9 10 11 24 25 26 27 12 13 14 15 28 29 30 31 (local.get $a) (local.get $b))))
    (local.set $c (f32x4.add
      (i8x16.shuffle 0 1 2 3 16 17 18 19 4 5 6 7 20 21 22 23 (local.get $c) (local.get $d))
      (i8x16.shuffle 8 9 10 11 24 25 26 27 12 13 14 15 28 29 30 31 (local.get $c) (local.get $d))))
    (f32x4.add
      (i8x16.shuffle 0 1 2 3 4 5 6 7 16 17 18 19 20 21 22 23 (local.get $a) (local.get $c))
      (i8x16.shuffle 8 9 10 11 12 13 14 15 24 25 26 27 28 29 30 31 (local.get $a) (local.get $c)))))
