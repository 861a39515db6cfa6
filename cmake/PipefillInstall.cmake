# What `cmake --install` lays down: the program, its decks and its job scripts. Paths are relative to the prefix, so
# that a moved prefix works.
include(GNUInstallDirs)
install(TARGETS pipefill RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY inputs jobscripts DESTINATION ${CMAKE_INSTALL_DATADIR}/pipefill USE_SOURCE_PERMISSIONS)
install(FILES README.md LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
