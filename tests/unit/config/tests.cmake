foreach(noun config settings)
  rlb_unit_test(config/${noun} LINK rlb::config)
endforeach()
