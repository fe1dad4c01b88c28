rlb_unit_test(classifiers/search LINK rlb::classifiers)
rlb_unit_test(classifiers/registry OWN_PROGRAM LINK rlb::classifiers)
set_tests_properties(unit.classifiers.registry PROPERTIES LABELS "unit;thread")
target_compile_definitions(unit.classifiers.registry PRIVATE
  RLB_TEST_PLUGINS="${CMAKE_CURRENT_BINARY_DIR}/plugins" RLB_EXAMPLE_PLUGIN="$<TARGET_FILE:example_path>")
add_dependencies(unit.classifiers.registry example_path)

foreach(fault no_symbol no_contract wrong_version no_create too_long rude)
  add_library(faulty_plugin_${fault} MODULE classifiers/faulty_plugin.c)
  target_compile_definitions(faulty_plugin_${fault} PRIVATE FAULT_${fault})
  target_include_directories(faulty_plugin_${fault} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(faulty_plugin_${fault} PRIVATE rlb::flags)
  set_target_properties(faulty_plugin_${fault} PROPERTIES PREFIX "" OUTPUT_NAME ${fault}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/plugins)
  add_dependencies(unit.classifiers.registry faulty_plugin_${fault})
endforeach()
