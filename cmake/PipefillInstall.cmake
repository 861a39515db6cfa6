# What `cmake --install` lays down: the program, its decks, its job scripts and README.md with docs/, to which it links.
# Paths are relative to the prefix, so that a moved prefix works.
include(GNUInstallDirs)
install(TARGETS pipefill RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY inputs jobscripts DESTINATION ${CMAKE_INSTALL_DATADIR}/pipefill USE_SOURCE_PERMISSIONS
        PATTERN austen EXCLUDE)  # fetched by inputs/get_austen.sh
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES README.md LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
