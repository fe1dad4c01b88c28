foreach(noun access_log answer classify exchange headers route_wait)
  rlb_unit_test(lb/${noun} LINK rlb::lb)
endforeach()
