foreach(noun answer exchange headers redirect)
  rlb_unit_test(lb/request/${noun} LINK rlb::lb)
endforeach()
