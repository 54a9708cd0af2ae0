(* SPDX-License-Identifier: MIT
   Big arrays lie in malloc's memory; so do the run-time's own tables, and its heap's chunks. *)
module M = Map.Make (String)

let () =
  let bigs = Array.init 300 (fun i ->
    let a = Bigarray.Array1.create Bigarray.int Bigarray.c_layout (100 + i * 131 mod 9000) in
    Bigarray.Array1.fill a i; a) in
  let sum = ref 0 in
  for round = 1 to 200 do
    let k = round * 37 mod 300 in
    let a = Bigarray.Array1.create Bigarray.int Bigarray.c_layout (round * 53 mod 20000 + 1) in
    Bigarray.Array1.fill a round;
    bigs.(k) <- a;
    if round mod 50 = 0 then Gc.full_major ()
  done;
  Array.iter (fun a -> sum := !sum + a.{0} * Bigarray.Array1.dim a) bigs;
  let m = ref M.empty in
  for i = 1 to 200000 do
    m := M.add (Printf.sprintf "key %d" (i * 7919 mod 50021)) i !m
  done;
  let h = Hashtbl.create 16 in
  M.iter (fun k v -> Hashtbl.replace h v (String.length k)) !m;
  let b = Buffer.create 16 in
  Hashtbl.iter (fun _ n -> Buffer.add_string b (String.make n 'x')) h;
  Gc.compact ();
  Printf.printf "%d %d %d\n" !sum (M.cardinal !m) (Buffer.length b)
