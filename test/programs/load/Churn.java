// SPDX-License-Identifier: MIT
// What a JVM takes from malloc: direct buffers, threads, deflate streams, class loading, and the
// compiler's own arenas. Prints sums that do not depend on the machine.
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.GZIPInputStream;
import java.util.zip.Inflater;

public class Churn {
  static long direct(int seed, int rounds) {
    Random random = new Random(seed);
    List<ByteBuffer> live = new ArrayList<>();
    long sum = 0;
    for (int i = 0; i < rounds; i++) {
      ByteBuffer buffer = ByteBuffer.allocateDirect(16 + random.nextInt(60000));
      while (buffer.remaining() >= 8) buffer.putLong(i * 31L + seed);
      live.add(buffer);
      if (live.size() > 50) sum += live.remove(random.nextInt(50)).getLong(8);
    }
    for (ByteBuffer buffer : live) sum += buffer.getLong(0);
    return sum;
  }

  static long deflate(int seed) throws Exception {
    byte[] text = new byte[200000];
    Random random = new Random(seed);
    for (int i = 0; i < text.length; i++) text[i] = (byte) ('a' + random.nextInt(7));
    CRC32 sum = new CRC32();
    for (int level = 1; level <= 9; level += 4) {
      Deflater out = new Deflater(level);
      out.setInput(text);
      out.finish();
      byte[] packed = new byte[text.length];
      int length = out.deflate(packed);
      out.end();
      Inflater in = new Inflater();
      in.setInput(packed, 0, length);
      byte[] back = new byte[text.length];
      if (in.inflate(back) != text.length) throw new Exception("lost bytes");
      in.end();
      sum.update(back);
    }
    return sum.getValue();
  }

  public static void main(String[] arguments) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(4);
    List<Future<Long>> sums = new ArrayList<>();
    for (int i = 0; i < 12; i++) {
      final int seed = i;
      sums.add(pool.submit(() -> direct(seed, 400) + deflate(seed)));
    }
    long total = 0;
    for (Future<Long> sum : sums) total += sum.get();
    pool.shutdown();
    List<Thread> threads = new ArrayList<>();
    long[] seen = new long[200];
    for (int i = 0; i < seen.length; i++) {
      final int k = i;
      Thread thread = new Thread(() -> seen[k] = direct(k, 5));
      thread.start();
      threads.add(thread);
    }
    for (Thread thread : threads) thread.join();
    for (long value : seen) total += value;
    Map<String, Integer> words = new TreeMap<>();
    IntStream.range(0, 200000).forEach(i -> words.merge("word" + i * 7919 % 10007, i % 13, Integer::sum));
    System.out.println(total + " " + words.size() + " " + words.hashCode());
  }
}
