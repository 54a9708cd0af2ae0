# SPDX-License-Identifier: MIT
"""Large C++ programs without a screen: office, drawing, solids, ray tracing, browsers."""
import os
import re

from harness import Skipped, expect

HTML = """<html><head><title>Report</title></head><body><h1>Report</h1>
{paragraphs}<table border="1">{rows}</table></body></html>"""


def document():
  paragraphs = "".join(f"<p>Paragraph {n} of <b>many</b>, with <i>words {n * 7919 % 1009}</i> and "
                       f"{'more of them ' * (n % 23)}.</p>" for n in range(300))
  rows = "".join(f"<tr><td>{n}</td><td>{n * n}</td><td>cell {n % 17}</td></tr>" for n in range(300))
  return HTML.format(paragraphs=paragraphs, rows=rows)


def libreoffice(side):
  """An HTML page becomes a document, the document plain text and a PDF."""
  office = side.need("soffice")
  side.write("report.html", document())
  cmd = [office, f"-env:UserInstallation=file://{side.path('profile')}", "--headless", "--norestore"]
  writer = ["--infilter=HTML (StarWriter)", "--convert-to"]
  side.run(cmd + writer + ["odt:writer8", "report.html"])
  side.run(cmd + ["--convert-to", "txt:Text", "report.odt"])
  side.run(cmd + ["--convert-to", "pdf:writer_pdf_Export", "report.odt"])
  text, pdf = side.read("report.txt"), side.read("report.pdf")
  expect(pdf.startswith(b"%PDF") and text.count(b"Paragraph") == 300, "a part is missing")
  # What is left of a PDF without its dates and numbers of its own.
  return text, re.sub(rb"/CreationDate\(.*?\)|/ID ?\[.*?\]|/DocChecksum ?/[0-9A-F]+", b"", pdf,
                      flags=re.S)


def inkscape(side):
  """A drawing with gradients, text, filters and paths, as pixels and as a PDF."""
  program = side.need("inkscape")
  shapes = "".join(
    f'<circle cx="{n * 37 % 400}" cy="{n * 53 % 300}" r="{n % 29 + 3}" fill="url(#g)" '
    f'opacity="0.{n % 9 + 1}"/><path d="M{n} {n * 3 % 300} q 40 {n % 60} 90 10 t 30 20" '
    f'stroke="#{n * 65793 % 0xffffff:06x}" fill="none"/>' for n in range(400))
  texts = "".join(f'<text x="10" y="{20 + n * 12}" font-size="11">Line {n} of text</text>'
                  for n in range(20))
  side.write("drawing.svg", '<svg xmlns="http://www.w3.org/2000/svg" width="400" height="300">'
             '<defs><linearGradient id="g"><stop offset="0" stop-color="red"/><stop offset="1" '
             'stop-color="blue"/></linearGradient><filter id="f"><feGaussianBlur '
             f'stdDeviation="3"/></filter></defs>{shapes}<g filter="url(#f)">{texts}</g></svg>')
  side.run([program, "drawing.svg", "--export-filename=drawing.png", "--export-width=900"],
           probe=["--version"])
  side.run([program, "drawing.svg", "--export-text-to-path", "--export-filename=paths.svg"])
  expect(side.read("drawing.png").startswith(b"\x89PNG"), "no picture")
  return side.read("drawing.png"), side.read("paths.svg")


def openscad(side):
  """Solids cut out of each other with exact arithmetic: small blocks by the million."""
  side.write("solid.scad", """
    difference() {
      union() { cube(20, center = true); for (i = [0 : 5]) rotate(i * 60) translate([9, 0, 0])
        cylinder(r = 4, h = 24, center = true, $fn = 18); }
      sphere(r = 12, $fn = 16);
      minkowski() { cube([2, 2, 40], center = true); sphere(r = 1, $fn = 6); }
    }""")
  side.run([side.need("openscad"), "-o", "solid.stl", "solid.scad"])
  expect(side.read("solid.stl").startswith(b"solid"), "no solid")
  # In what order the facets come depends on where blocks lie.
  return sorted(side.read("solid.stl").splitlines())


def povray(side):
  """Four threads trace a scene with glass, textures and media."""
  balls = "".join(f"sphere {{ <{n % 7 - 3}, {n // 7 % 5 - 2}, {n // 35 + 3}>, 0.45 texture {{ pigment "
                  f"{{ {('checker', 'marble', 'granite')[n % 3]} }} finish {{ reflection 0.3 }} }} }}\n"
                  for n in range(100))
  side.write("scene.pov", '#version 3.7; global_settings { assumed_gamma 1 }\ncamera { location '
             "<0, 1, -6> look_at <0, 0, 4> }\nlight_source { <5, 9, -8> 1 area_light <2,0,0> <0,0,2> "
             "4 4 }\nplane { y, -3 pigment { hexagon } }\n" + balls)
  side.run([side.need("povray"), "+Iscene.pov", "+Oscene.ppm", "+FP", "+W320", "+H240", "-D", "+A0.3",
            "-J", "+WT4", "-GA"])
  picture = re.sub(rb"^# Render Date.*$", b"", side.read("scene.ppm"), count=1, flags=re.M)
  expect(picture.startswith(b"P6"), "no picture")
  return picture


PAGE = """<!doctype html><body><canvas id=c width=200 height=200></canvas><pre id=p></pre><script>
const words = new Map(), context = document.getElementById('c').getContext('2d');
for (let i = 0; i < 200000; i++) words.set('w' + i * 7919 % 10007, 'x'.repeat(i % 50));
for (let i = 0; i < 300; i++) {
  const e = document.createElement('div');
  e.textContent = 'element ' + i + ' ' + words.get('w' + i);
  document.body.appendChild(e);
  context.fillStyle = `rgb(${i % 255}, ${i * 7 % 255}, 9)`;
  context.fillRect(i * 37 % 190, i * 53 % 190, 9, 9);
}
const data = JSON.stringify([...words]);
document.getElementById('p').textContent = words.size + ' ' + data.length + ' ' +
  JSON.parse(data).length + ' ' + [...context.getImageData(0, 0, 200, 200).data].reduce((a, b) => a + b);
</script>"""


def chromium(side):
  """A browser with a malloc of its own: it must go before ours, and what is ours not mix with it."""
  program = side.need("chromium")
  page = side.write("page.html", PAGE)
  if side.preload:
    side.note("has its own malloc")
  options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             f"--user-data-dir={side.path('profile')}"]
  dom = side.run([program, *options, "--dump-dom", f"file://{page}"])
  expect(b"10007 " in dom, "the page's script did not run")
  side.run([program, *options, "--print-to-pdf=page.pdf", "--no-pdf-header-footer", f"file://{page}"])
  expect(side.read("page.pdf").startswith(b"%PDF"), "no PDF")
  return dom


def firefox(side):
  """The same page as pixels. Firefox, too, exports a malloc of its own."""
  program = side.need("firefox-esr") if os.path.exists("/usr/bin/firefox-esr") else side.need("firefox")
  page = side.write("page.html", PAGE)
  if side.preload:
    side.note("has its own malloc")
  side.run([program, "--headless", "--profile", _made(side.path("profile")), "--no-remote",
            "--window-size=700,900", "--screenshot", side.path("page.png"), f"file://{page}"],
           env={"MOZ_DISABLE_CONTENT_SANDBOX": "1", "MOZ_CRASHREPORTER_DISABLE": "1"})
  if not os.path.exists(side.path("page.png")):
    raise Skipped("Firefox makes no picture here")
  return side.read("page.png")


SCENE = """
import bpy, hashlib
bpy.ops.wm.read_factory_settings(use_empty=True)
for i in range(20):
  bpy.ops.mesh.primitive_uv_sphere_add(location=(i % 5 * 2, i // 5 * 2, 0))
  bpy.context.object.modifiers.new('smooth', 'SUBSURF').levels = 2
  bpy.ops.object.modifier_apply(modifier='smooth')
bpy.ops.object.camera_add(location=(4, 4, 20))
bpy.context.scene.camera = bpy.context.object
bpy.ops.object.light_add(type='SUN', location=(0, 0, 10))
scene = bpy.context.scene
scene.render.engine, scene.cycles.samples, scene.cycles.use_denoising = 'CYCLES', 4, False
scene.render.resolution_x, scene.render.resolution_y = 160, 120
scene.render.filepath = 'PICTURE'
bpy.ops.render.render(write_still=True)
picture = bpy.data.images.load('PICTURE')
print('SUM', sum(len(o.data.vertices) for o in bpy.data.objects if o.type == 'MESH'),
      hashlib.md5(bytes(int(x * 255) for x in picture.pixels)).hexdigest())
bpy.ops.wm.save_as_mainfile(filepath='FILE')
"""


def blender(side):
  """Twenty solids, subdivided and traced by all processors."""
  script = SCENE.replace("PICTURE", side.path("picture.png")).replace("FILE", side.path("scene.blend"))
  out = side.run([side.need("blender"), "--background", "--python-exit-code", "3", "--python",
                  side.write("scene.py", script)])
  return [line for line in out.splitlines() if line.startswith(b"SUM")]


def _made(path):
  os.makedirs(path, exist_ok=True)
  return path


PROGRAMS = {"libreoffice": libreoffice, "inkscape": inkscape, "openscad": openscad,
            "povray": povray, "blender": blender, "chromium": chromium, "firefox": firefox}
