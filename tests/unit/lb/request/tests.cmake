foreach(noun response exchange front headers)
  rlb_unit_test(lb/request/${noun} LINK rlb::lb)
endforeach()
