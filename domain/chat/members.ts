/** The chat request members that servers read: OpenAI's, plus vLLM's extensions. */
export const CHAT_MEMBERS: ReadonlySet<string> = new Set(
  `messages model max_tokens max_completion_tokens min_tokens temperature top_p top_k min_p n best_of stop stop_token_ids
  stream stream_options seed frequency_penalty presence_penalty repetition_penalty length_penalty logit_bias logprobs
  top_logprobs prompt_logprobs tools tool_choice parallel_tool_calls functions function_call response_format
  reasoning_effort reasoning verbosity thinking_token_budget chat_template chat_template_kwargs add_generation_prompt
  continue_final_message add_special_tokens documents echo ignore_eos skip_special_tokens
  spaces_between_special_tokens include_stop_str_in_output truncate_prompt_tokens allowed_token_ids bad_words
  use_beam_search guided_json guided_regex guided_choice guided_grammar guided_decoding_backend
  guided_whitespace_pattern structured_outputs structural_tag include_reasoning mm_processor_kwargs modalities audio
  prediction metadata store user service_tier priority cache_salt kv_transfer_params vllm_xargs logits_processors
  return_token_ids return_tokens_as_token_ids request_id prompt_cache_key safety_identifier image_url audio_url
  prompt system input web_search_options`.split(/\s+/),
)
