foreach(noun command_line configuration stats_text types)
  rlb_unit_test(poolcounter/${noun} LINK rlb::poolcounter)
endforeach()
target_compile_definitions(unit.poolcounter.configuration PRIVATE RLB_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
