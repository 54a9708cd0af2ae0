%% SPDX-License-Identifier: MIT
%% Processes, messages, binaries and tables: what the run-time's allocators take from the system.
-module(ring).
-export([main/0]).

worker(Parent, N) ->
    Bins = [binary:copy(<<(I rem 256)>>, 100 + I * 37 rem 9000) || I <- lists:seq(1, 200)],
    Parent ! {N, erlang:crc32(Bins)}.

main() ->
    Parent = self(),
    [spawn(fun() -> worker(Parent, N) end) || N <- lists:seq(1, 500)],
    Sums = [receive {N, Sum} -> Sum end || N <- lists:seq(1, 500)],
    Table = ets:new(t, [ordered_set]),
    [ets:insert(Table, {I * 7919 rem 100003, lists:seq(1, I rem 20)}) || I <- lists:seq(1, 100000)],
    Total = ets:foldl(fun({_, L}, A) -> A + length(L) end, 0, Table),
    Text = iolist_to_binary([io_lib:format("~p ~s;", [I, integer_to_list(I, 16)]) || I <- lists:seq(1, 30000)]),
    Parts = binary:split(Text, <<";">>, [global]),
    Packed = zlib:gzip(Text),
    io:format("~p ~p ~p ~p ~p~n", [lists:sum(Sums), ets:info(Table, size), Total, length(Parts),
                                  zlib:gunzip(Packed) =:= Text]),
    {ok, _} = dets:open_file(d, [{file, "ring.dets"}]),
    [dets:insert(d, {I, binary:copy(<<"v">>, I rem 300)}) || I <- lists:seq(1, 3000)],
    io:format("~p~n", [dets:info(d, size)]),
    dets:close(d),
    halt(0).
