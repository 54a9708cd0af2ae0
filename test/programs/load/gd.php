<?php
// SPDX-License-Identifier: MIT
// PHP with its gd module and others that are opened as libraries: pictures, expressions, JSON,
// archives in memory, arrays and strings.
echo extension_loaded('gd') ? "gd\n" : "no gd\n";
$sums = [];
for ($n = 0; $n < 12; $n++) {
  $image = imagecreatetruecolor(300, 200);
  for ($i = 0; $i < 200; $i++) {
    imagefilledellipse($image, $i * 37 % 300, $i * 53 % 200, 9 + $i % 40, 7 + $n, $i * 65793 % 0xffffff);
  }
  $turned = imagerotate(imagescale($image, 150 + $n, 90), 30, 0);
  foreach (['imagepng', 'imagejpeg', 'imagegif', 'imagewebp'] as $write) {
    if (!function_exists($write)) continue;
    ob_start();
    $write($turned);
    $data = ob_get_clean();
    $back = imagecreatefromstring($data);
    $sums[] = md5($data) . imagesx($back);
  }
}
echo md5(implode(',', $sums)), ' ', count($sums), "\n";
$rows = [];
for ($i = 0; $i < 60000; $i++) {
  $rows["key " . ($i * 7919 % 100003)] = ['n' => $i, 's' => str_repeat("x$i", $i % 9)];
}
$text = json_encode($rows);
echo md5($text), ' ', count(json_decode($text, true)), ' ', preg_match_all('/x(\d+)x/', $text), "\n";
echo strlen(gzcompress($text, 6)) > 0 ? md5(gzuncompress(gzcompress($text))) : '', "\n";
usort($rows, fn($a, $b) => strlen($a['s']) <=> strlen($b['s']) ?: $a['n'] <=> $b['n']);
echo md5(serialize(array_slice($rows, 0, 20000))), "\n";
echo iconv('UTF-8', 'UTF-16', "äöü") === false ? 'no' : strlen(iconv('UTF-8', 'UTF-16', str_repeat("äöü", 9999))), "\n";
