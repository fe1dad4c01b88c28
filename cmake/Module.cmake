# rlb_module(NAME SOURCES a.c b.c LINK rlb::base ... [PRIVATE PkgConfig::X ...])
# One static library per directory, or per group of directories, rlb::NAME. What a module may include is what it links (dev/check-layers agrees).
function(rlb_module name)
  cmake_parse_arguments(M "" "" "SOURCES;LINK;PRIVATE" ${ARGN})
  add_library(rlb_${name} STATIC ${M_SOURCES})
  add_library(rlb::${name} ALIAS rlb_${name})
  target_include_directories(rlb_${name} PUBLIC ${PROJECT_SOURCE_DIR} PRIVATE ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(rlb_${name} PUBLIC ${M_LINK} PRIVATE rlb::flags ${M_PRIVATE})
endfunction()

# rlb_assets(NAME DIRECTORY a.html b.js): files of DIRECTORY as C arrays in "assets.h", for the module NAME.
function(rlb_assets name directory)
  set(files ${ARGN})
  list(TRANSFORM files PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/${directory}/)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/generated/assets.h)
  set(script ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake)
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} "-DFILES=${files}" -P ${script}
    DEPENDS ${files} ${script}
    VERBATIM)
  target_sources(rlb_${name} PRIVATE ${out})
  target_include_directories(rlb_${name} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/generated)
endfunction()

# rlb_program(NAME a.c LINK rlb::lb ...): a.c, which has main(), + its library, into build/bin.
function(rlb_program name source)
  cmake_parse_arguments(M "" "" "LINK;PRIVATE" ${ARGN})
  add_executable(${name} ${source})
  target_include_directories(${name} PRIVATE ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(${name} PRIVATE rlb::flags ${M_LINK} ${M_PRIVATE})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin RLB_IS_PROGRAM ON)
endfunction()

# rlb_test_source(KIND AREA NOUN FILE LINK rlb::x ...): registers FILE as the part NOUN of the program KIND.AREA.
function(rlb_test_source kind area noun source)
  cmake_parse_arguments(M "" "" "LINK" ${ARGN})
  set_property(GLOBAL APPEND PROPERTY RLB_${kind}_AREAS ${area})
  set_property(GLOBAL APPEND PROPERTY RLB_${kind}_${area}_NOUNS ${noun})
  set_property(GLOBAL APPEND PROPERTY RLB_${kind}_${area}_SOURCES ${source})
  set_property(GLOBAL APPEND PROPERTY RLB_${kind}_${area}_LINK ${M_LINK})
endfunction()

# rlb_test_programs(KIND FUNCTION RUNNER [HEADER]): the programs of what has been registered, since linking one program per source takes longer
# than compiling it. Each source defines FUNCTION, which is renamed to NOUN_test_part; RUNNER, which selects one by the first argument, has
# them all as TEST_PART(NOUN) in "test_parts.def". HEADER is included before each source, where no header of theirs declares FUNCTION.
function(rlb_test_programs kind function runner)
  get_property(areas GLOBAL PROPERTY RLB_${kind}_AREAS)
  list(REMOVE_DUPLICATES areas)
  foreach(area ${areas})
    foreach(what NOUNS SOURCES LINK)
      get_property(${what} GLOBAL PROPERTY RLB_${kind}_${area}_${what})
    endforeach()
    list(REMOVE_DUPLICATES LINK)
    list(TRANSFORM NOUNS REPLACE "(.+)" "TEST_PART(\\1)\n" OUTPUT_VARIABLE table)
    list(JOIN table "" table)
    set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated/${area})
    file(CONFIGURE OUTPUT ${generated}/test_parts.def CONTENT "${table}" @ONLY)
    add_executable(${kind}.${area} ${SOURCES} ${runner})
    foreach(noun source IN ZIP_LISTS NOUNS SOURCES)
      set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS "${function}=${noun}_test_part")
      if(ARGN)
        set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-include;${ARGN}")
      endif()
    endforeach()
    target_link_libraries(${kind}.${area} PRIVATE rlb::flags ${LINK})
    target_compile_definitions(${kind}.${area} PRIVATE RLB_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    target_include_directories(${kind}.${area} PRIVATE ${PROJECT_SOURCE_DIR} ${generated})
    set_target_properties(${kind}.${area} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  endforeach()
endfunction()

# The program of tests/unit/PATH_test.c alone, as the target unit.area.noun: for a test that replaces functions of the program or of libraries.
function(rlb_own_test_program path)
  cmake_parse_arguments(M "" "" "LINK" ${ARGN})
  string(REPLACE "/" "." dotted ${path})
  set(target unit.${dotted})
  add_executable(${target} ${CMAKE_CURRENT_SOURCE_DIR}/${path}_test.c)
  target_link_libraries(${target} PRIVATE rlb::flags ${M_LINK} PkgConfig::CMOCKA)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endfunction()

# rlb_unit_test(area/noun [OWN_PROGRAM] LINK rlb::x ...): tests/unit/area/noun_test.c as the CTest "unit.area.noun".
function(rlb_unit_test path)
  cmake_parse_arguments(M "OWN_PROGRAM" "" "LINK" ${ARGN})
  string(REPLACE "/" "." dotted ${path})
  if(M_OWN_PROGRAM)
    rlb_own_test_program(${path} LINK ${M_LINK})
    add_test(NAME unit.${dotted} COMMAND unit.${dotted})
  else()
    get_filename_component(area ${path} DIRECTORY)
    string(REPLACE "/" "." area ${area})
    get_filename_component(noun ${path} NAME)
    rlb_test_source(unit ${area} ${noun} ${CMAKE_CURRENT_SOURCE_DIR}/${path}_test.c LINK ${M_LINK} PkgConfig::CMOCKA)
    add_test(NAME unit.${dotted} COMMAND unit.${area} ${noun})
  endif()
  # Above WAIT_LIMIT_MS (tests/support/wait_limit.h). Coverage makes some tests with models about ten times slower.
  set(timeout 1800)
  if(RLB_COVERAGE)
    set(timeout 3600)
  endif()
  set_tests_properties(unit.${dotted} PROPERTIES LABELS unit TIMEOUT ${timeout})
endfunction()

# rlb_zookeeper_test(area/noun LINK rlb::x ...): the same for a test that needs a real ZooKeeper. It gets an empty
# server of its own (tests/support/with-zookeeper): $RLB_ZOOKEEPER is its address, $RLB_ZOOKEEPER_PID its process.
function(rlb_zookeeper_test path)
  rlb_own_test_program(${path} ${ARGN})
  string(REPLACE "/" "." dotted ${path})
  add_test(NAME unit.${dotted} COMMAND ${PROJECT_SOURCE_DIR}/tests/support/with-zookeeper $<TARGET_FILE:unit.${dotted}>)
  set_tests_properties(unit.${dotted} PROPERTIES LABELS "unit;thread;zookeeper" TIMEOUT 1800
    ENVIRONMENT "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/lsan.supp:print_suppressions=0")
endfunction()
