foreach(noun command_line configuration figures)
  rlb_unit_test(poolcounter/${noun} LINK rlb::poolcounter)
endforeach()
