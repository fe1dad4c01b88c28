# rlb_module(NAME SOURCES a.c b.c LINK rlb::base ... [PRIVATE PkgConfig::X ...])
# One static library per folder, rlb::NAME. What a module may include is what it links (dev/check-includes.sh agrees).
function(rlb_module name)
  cmake_parse_arguments(M "" "" "SOURCES;LINK;PRIVATE" ${ARGN})
  add_library(rlb_${name} STATIC ${M_SOURCES})
  add_library(rlb::${name} ALIAS rlb_${name})
  target_include_directories(rlb_${name} PUBLIC ${PROJECT_SOURCE_DIR} PRIVATE ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(rlb_${name} PUBLIC ${M_LINK} PRIVATE rlb::flags ${M_PRIVATE})
endfunction()

# rlb_assets(NAME a.html b.js): the files of this folder's assets/ as C arrays in "assets.h", for the module NAME.
function(rlb_assets name)
  set(files ${ARGN})
  list(TRANSFORM files PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/assets/)
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

# rlb_program(NAME LINK rlb::lb ...): main.c of this folder + its library, into build/bin.
function(rlb_program name)
  cmake_parse_arguments(M "" "" "LINK;PRIVATE" ${ARGN})
  add_executable(${name} main.c)
  target_link_libraries(${name} PRIVATE rlb::flags ${M_LINK} ${M_PRIVATE})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin RLB_IS_PROGRAM ON)
endfunction()

# The program of tests/unit/PATH_test.c, as the target unit.area.noun.
function(rlb_test_program path)
  cmake_parse_arguments(M "" "" "LINK;PRIVATE" ${ARGN})
  string(REPLACE "/" "." dotted ${path})
  set(target unit.${dotted})
  add_executable(${target} ${CMAKE_CURRENT_SOURCE_DIR}/${path}_test.c)
  target_link_libraries(${target} PRIVATE rlb::flags ${M_LINK} PkgConfig::CMOCKA ${M_PRIVATE})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endfunction()

# rlb_unit_test(area/noun LINK rlb::x ...): tests/unit/area/noun_test.c as the CTest "unit.area.noun".
function(rlb_unit_test path)
  rlb_test_program(${path} ${ARGN})
  string(REPLACE "/" "." dotted ${path})
  add_test(NAME unit.${dotted} COMMAND unit.${dotted})
  # Counting what runs makes the models that count themselves some ten times slower.
  set(timeout 60)
  if(RLB_COVERAGE)
    set(timeout 300)
  endif()
  set_tests_properties(unit.${dotted} PROPERTIES LABELS unit TIMEOUT ${timeout})
endfunction()

# rlb_zookeeper_test(area/noun LINK rlb::x ...): the same for a test that wants a real ZooKeeper. It is given an empty
# server of its own (tests/support/with-zookeeper): $RLB_ZOOKEEPER is its address, $RLB_ZOOKEEPER_PID its process.
function(rlb_zookeeper_test path)
  rlb_test_program(${path} ${ARGN})
  string(REPLACE "/" "." dotted ${path})
  add_test(NAME unit.${dotted} COMMAND ${PROJECT_SOURCE_DIR}/tests/support/with-zookeeper $<TARGET_FILE:unit.${dotted}>)
  set_tests_properties(unit.${dotted} PROPERTIES LABELS "unit;thread;zookeeper" TIMEOUT 120)
endfunction()
