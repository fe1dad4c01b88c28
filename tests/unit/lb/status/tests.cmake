foreach(noun class_metrics shared_responses)
  rlb_unit_test(lb/status/${noun} LINK rlb::lb)
endforeach()
