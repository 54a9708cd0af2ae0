# SPDX-License-Identifier: MIT
"""ghostscript renders a generated PostScript document, turns it into PDF, and renders that.

The page images must be those that the system's malloc gives, with 1 and with 2 rendering threads,
and the PDF must hold the document's pages and its text.
"""
from harness import OUTPUT, expect, main, same

PAGE = """
/Times-Roman findfont 11 scalefont setfont
0 1 {rows} {{ /r exch def
  72 720 r 12 mul sub moveto (page {page} row ) show r 4 string cvs show
  ( the quick brown fox jumps over the lazy dog ) show
}} for
gsave 300 300 translate
0 1 {shapes} {{ /s exch def
  gsave s 360 mul {shapes} div rotate s 37 mul 360 mod 360 div 0.7 0.8 sethsbcolor
  s 5 mod 1 add 4 div setlinewidth
  newpath 0 0 moveto 40 s 3 mod 20 mul 10 80 60 120 {page} add curveto
  s 2 mod 0 eq {{ stroke }} {{ closepath fill }} ifelse grestore
}} for grestore
0 1 {objects} {{ /n exch def 50 dict begin /name n 8 string cvs def
  /list [ 0 1 n 50 mod {{ dup mul }} for ] def list length pop end }} for
showpage
"""


def test(session):
  gs = session.need("gs")
  pages = 40 if session.heavy else 8
  text = "%!PS-Adobe-3.0\n" + "".join(
    PAGE.format(page=n + 1, rows=40, shapes=300, objects=20000) for n in range(pages))
  source = session.path("document.ps")
  with open(source, "w", encoding="ascii") as f:
    f.write(text + "%%EOF\n")
  base = [gs, "-q", "-dBATCH", "-dNOPAUSE", "-dSAFER"]
  images = set()
  for threads in (1, 2):
    # Without a large bitmap in memory the page becomes a list of bands, drawn by the threads.
    ours = session.both([*base, "-sDEVICE=ppmraw", "-r150", f"-dNumRenderingThreads={threads}",
                         "-dMaxBitmap=1000000", "-dTextAlphaBits=4", "-dGraphicsAlphaBits=4",
                         "-o", "-", source])
    expect(ours.out.count(b"P6\n") >= pages, "not every page was drawn")
    images.add(ours.out)
  same("different images", len(images), 1)
  session.run([*base, "-sDEVICE=pdfwrite", "-o", session.path("document.pdf"), source])
  again = session.run([*base, "-sDEVICE=txtwrite", "-o", "-", session.path("document.pdf")])
  lines = again.out.decode("utf-8", "replace").splitlines()
  same("rows of text found in the PDF", sum("lazy dog" in x for x in lines), pages * 41)
  drawn = session.both([*base, "-sDEVICE=png16m", "-r100", "-dTextAlphaBits=4", "-o", OUTPUT,
                        "-dLastPage=1", session.path("document.pdf")])
  with open(drawn.file, "rb") as f:
    same("first bytes of the PNG", f.read(8), b"\x89PNG\r\n\x1a\n")
  session.say(f"{pages} pages drawn, converted and read back")


main(test)
