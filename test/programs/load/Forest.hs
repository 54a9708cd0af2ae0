-- SPDX-License-Identifier: MIT
-- Blocks of the C library's malloc beside the collector's heap, from several threads.
import Control.Concurrent
import Control.Monad
import qualified Data.Map.Strict as Map
import Foreign

block :: Int -> IO Int
block n = do
  p <- mallocBytes (8 * (n `mod` 5000 + 1)) :: IO (Ptr Int)
  pokeElemOff p 0 n
  q <- reallocBytes p (8 * (n `mod` 9000 + 1))
  v <- peekElemOff q 0
  free q
  f <- mallocForeignPtrBytes (n `mod` 20000 + 8) :: IO (ForeignPtr Int)
  w <- withForeignPtr f (\r -> poke r v >> peek r)
  r <- newArray [1 .. n `mod` 100] :: IO (Ptr Int)
  g <- newForeignPtr finalizerFree r
  s <- withForeignPtr g (fmap sum . peekArray (n `mod` 100))
  return (w + s)

main :: IO ()
main = do
  done <- forM [1 .. 8] $ \k -> do
    v <- newEmptyMVar
    _ <- forkOS (fmap sum (mapM block [k, k + 8 .. 60000]) >>= putMVar v)
    return v
  sums <- mapM takeMVar done
  let m = Map.fromListWith (+) [(i * 7919 `mod` 30011, i) | i <- [1 .. 200000 :: Int]]
  print (sum sums, Map.size m, Map.foldl' (+) 0 m)
