# SPDX-License-Identifier: MIT
# Read by cpack for each kind of package: a Debian package installs under /usr, an archive unpacks
# to a folder of its own.
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
else()
  set(CPACK_PACKAGING_INSTALL_PREFIX /)
endif()
