# `cmake --install`: programs, manual pages, units, configuration, documentation, the classifiers' contract. Prefixes and directories are
# those of GNUInstallDirs; configuration goes to <sysconfdir>/resumelb and is never overwritten.
include(GNUInstallDirs)
set(RLB_SYSTEMD_UNIT_DIR lib/systemd/system CACHE STRING "Directory of systemd units")
set(RLB_SYSUSERS_DIR lib/sysusers.d CACHE STRING "Directory of systemd-sysusers")
set(RLB_TMPFILES_DIR lib/tmpfiles.d CACHE STRING "Directory of systemd-tmpfiles")
set(RLB_ZSH_DIR ${CMAKE_INSTALL_DATADIR}/zsh/site-functions CACHE STRING "Directory of zsh completions")

install(TARGETS resumelb resumelb-agent resumelb-poolcounter resumelbctl RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# FILE of this directory as generated/FILE, with the paths of this installation.
function(rlb_localized file)
  file(READ ${PROJECT_SOURCE_DIR}/${file} text)
  string(REPLACE "/usr/bin/" "${CMAKE_INSTALL_FULL_BINDIR}/" text "${text}")
  string(REPLACE "/etc/" "${CMAKE_INSTALL_FULL_SYSCONFDIR}/" text "${text}")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/${file} CONTENT "${text}" @ONLY)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${file})
endfunction()

# An existing configuration is kept, with its mode. Further arguments are the mode of a new one; without any it is 0644.
function(rlb_install_configuration file directory name)
  string(REPLACE ";" " " mode "${ARGN}")
  rlb_localized(${file})
  install(CODE "
    set(target \"\$ENV{DESTDIR}${CMAKE_INSTALL_FULL_SYSCONFDIR}/${directory}/${name}\")
    if(EXISTS \"\${target}\")
      message(STATUS \"Kept: \${target}\")
    else()
      file(INSTALL DESTINATION \"${CMAKE_INSTALL_FULL_SYSCONFDIR}/${directory}\" TYPE FILE
           FILES \"${PROJECT_BINARY_DIR}/generated/${file}\" RENAME \"${name}\" ${mode})
    endif()")
endfunction()

foreach(name resumelb resumelb-agent resumelb-poolcounter)
  rlb_localized(conf/systemd/${name}.service)
  install(FILES ${PROJECT_BINARY_DIR}/generated/conf/systemd/${name}.service DESTINATION ${RLB_SYSTEMD_UNIT_DIR})
  # It may contain tokens: no permissions for others. The group is set by the packages (debian/*.postinst) or by hand (docs/install.md).
  rlb_install_configuration(conf/etc/${name}.yaml resumelb ${name}.yaml PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ)
endforeach()
rlb_install_configuration(conf/etc/logrotate logrotate.d resumelb)
install(FILES conf/sysusers.d/resumelb.conf conf/sysusers.d/resumelb-poolcounter.conf DESTINATION ${RLB_SYSUSERS_DIR})
install(FILES conf/tmpfiles.d/resumelb.conf DESTINATION ${RLB_TMPFILES_DIR})

# Manual pages, with the output of the programs' --describe, if they can be run here and the PATH has Python.
set(pages
  resumelbctl.1 resumelb.yaml.5 resumelb-agent.yaml.5 resumelb-poolcounter.yaml.5 resumelb-metrics.7 resumelb-outcomes.7
  resumelb.8 resumelb-agent.8 resumelb-poolcounter.8)
find_program(RLB_MAN_PYTHON python3 NO_CMAKE_SYSTEM_PATH)
if(NOT RLB_MAN_PYTHON OR CMAKE_CROSSCOMPILING)
  message(STATUS "No python3 in the PATH, or another architecture: manual pages are not made")
  set(pages)
endif()
set(made)
foreach(page ${pages})
  set(out ${PROJECT_BINARY_DIR}/man/${page})
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${RLB_MAN_PYTHON} -B ${PROJECT_SOURCE_DIR}/dev/make-man --bin ${PROJECT_BINARY_DIR}/bin --version ${PROJECT_VERSION}
            --date ${RLB_RELEASE_DATE} ${PROJECT_SOURCE_DIR}/docs/man/${page} > ${out}.new
    COMMAND ${CMAKE_COMMAND} -E rename ${out}.new ${out}
    DEPENDS docs/man/${page} dev/make-man resumelb resumelb-agent resumelb-poolcounter
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    VERBATIM)
  list(APPEND made ${out})
  string(REGEX MATCH "[0-9]$" section ${page})
  install(FILES ${out} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/man)
add_custom_target(man ALL DEPENDS ${made})

# For custom classifiers (docs/guide/plugins.md).
file(READ examples/classifier/example_path.c example)
string(REPLACE "\"classifiers/classifier.h\"" "<resumelb/classifier.h>" example "${example}")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/my_classifier.c CONTENT "${example}" @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS examples/classifier/example_path.c)
install(FILES classifiers/classifier.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/resumelb)
install(FILES ${PROJECT_BINARY_DIR}/generated/my_classifier.c DESTINATION ${CMAKE_INSTALL_DOCDIR}/classifier)

# The files of conf/ as examples; README and docs/.
install(DIRECTORY conf/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
  PATTERN systemd EXCLUDE PATTERN etc EXCLUDE PATTERN sysusers.d EXCLUDE PATTERN tmpfiles.d EXCLUDE)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN man EXCLUDE)
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Completion, in the default directory of each shell.
install(FILES ${PROJECT_BINARY_DIR}/completion/resumelbctl.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  RENAME resumelbctl)
install(FILES ${PROJECT_BINARY_DIR}/completion/_resumelbctl DESTINATION ${RLB_ZSH_DIR})
