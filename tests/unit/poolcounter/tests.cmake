foreach(noun command_line configuration stats_text types)
  rlb_unit_test(poolcounter/${noun} LINK rlb::poolcounter)
endforeach()
