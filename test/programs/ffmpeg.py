# SPDX-License-Identifier: MIT
"""ffmpeg generates, filters, encodes and decodes video and sound with frame threads.

Its buffers are aligned for vector instructions, handed between threads and kept in pools. The
checksum of every frame must be what the system's malloc gives; lossless encoding must give back
the frames that went in.
"""
from harness import OUTPUT, expect, main, same


def test(session):
  ffmpeg = session.need("ffmpeg")
  seconds = 40 if session.heavy else 6
  base = [ffmpeg, "-nostdin", "-hide_banner", "-v", "error", "-y", "-filter_threads", "2"]
  exact = ["-fflags", "+bitexact", "-flags", "+bitexact", "-threads", "2"]
  video = ["-f", "lavfi", "-i", f"testsrc2=duration={seconds}:size=640x360:rate=25"]
  sound = ["-f", "lavfi", "-i", f"sine=frequency=440:beep_factor=4:duration={seconds}"]
  frames = 25 * seconds

  def checksums(run):
    return [x for x in run.out.decode().splitlines() if x and not x.startswith("#")]

  filtered = session.both([*base, *video, *exact, "-vf", "hqdn3d,scale=480:270,unsharp,rotate=0.1",
                           "-f", "framemd5", "-"])
  same("filtered frames", len(checksums(filtered)), frames)
  packed = session.both([*base, *video, *sound, *exact, "-c:v", "mpeg4", "-b:v", "2M", "-bf", "2",
                         "-c:a", "flac", "-f", "matroska", OUTPUT])
  back = session.both([*base, "-threads", "2", "-i", packed.file, "-map", "0:v", *exact,
                       "-f", "framemd5", "-"])
  same("frames decoded", len(checksums(back)), frames)
  source = session.run([*base, *video, *exact, "-pix_fmt", "yuv420p", "-f", "framemd5", "-"],
                       preload=False)
  lossless = session.path("lossless.mkv")
  session.run([*base, *video, *exact, "-pix_fmt", "yuv420p", "-c:v", "ffv1", "-slices", "4",
               "-level", "3", lossless])
  again = session.run([*base, "-i", lossless, *exact, "-f", "framemd5", "-"])
  same("frames after a lossless round trip", [x.split(",")[-1] for x in checksums(again)],
       [x.split(",")[-1] for x in checksums(source)])
  expect(len(set(checksums(source))) == frames, "the source repeats frames")
  session.say(f"{frames} frames filtered, encoded and decoded alike")


main(test)
