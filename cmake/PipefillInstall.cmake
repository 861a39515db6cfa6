# What `cmake --install` lays down: the program, its decks and job scripts, README.md with docs/, to which it links, and
# what a plug-in is built against. Paths are relative to the prefix, so that a moved prefix works.
include(GNUInstallDirs)
install(TARGETS pipefill RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY inputs jobscripts DESTINATION ${CMAKE_INSTALL_DATADIR}/pipefill USE_SOURCE_PERMISSIONS
        PATTERN austen EXCLUDE)  # fetched by inputs/get_austen.sh
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES README.md LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# find_package(pipefill) gives pipefill::fill_job: the header of the C ABI, nothing to link.
add_library(pipefill_fill_job INTERFACE)
set_target_properties(pipefill_fill_job PROPERTIES EXPORT_NAME fill_job)
target_include_directories(pipefill_fill_job INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(DIRECTORY include/pipefill DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS pipefill_fill_job EXPORT pipefill)
install(EXPORT pipefill NAMESPACE pipefill:: FILE pipefillConfig.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/pipefill)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(pipefillConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/pipefillConfigVersion.cmake"
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/pipefill)
